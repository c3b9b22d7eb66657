"""Environments: the TSP and the CVRP as append, insert and remove moves on batches of partial solutions."""

from nco.envs.base import Env, Positions, State
from nco.envs.cvrp import CVRPEnv, CVRPState
from nco.envs.tsp import TSPEnv

__all__ = ["CVRPEnv", "CVRPState", "Env", "Positions", "State", "TSPEnv"]
