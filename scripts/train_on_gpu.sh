#!/usr/bin/env bash
# Train the paper-size networks for TSP and CVRP within ten minutes on one large GPU.
#
#   scripts/train_on_gpu.sh OUTDIR [LABELS_DIR [OPTION...]]
#
# OUTDIR gets a folder of weights for each problem (l2c-insert-tsp, l2c-insert-cvrp), the runs that they come from
# (runs/) and all that was said (train.log). LABELS_DIR holds tsp100_lkh.npz, cvrp100_c50_hgs.npz and
# cvrp100_mixed_hgs.npz; by default it is $NCO_LABELS, or the folder shared/labels beside the checkout. Options go to
# `nco train`, after the recipe and the script's own.
#
# The same command given again goes on where it was stopped or killed. Variables: SECONDS_EACH, the time for each problem
# (270; the speed is measured first, and the schedule cut to the steps that fit); PROBLEMS ("tsp cvrp"); PYTHON, the
# interpreter, by default that of .venv where there is one.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ $# -lt 1 ]; then
    echo "usage: $0 OUTDIR [LABELS_DIR [OPTION...]]" >&2
    exit 2
fi
out=$1
export NCO_LABELS=${2:-${NCO_LABELS:-$checkout/../shared/labels}}
shift $(($# < 2 ? $# : 2))
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    if [ -x "$checkout/.venv/bin/python" ]; then PYTHON=$checkout/.venv/bin/python; fi
fi
mkdir -p "$out"

train() {
    local name=$1 run=$out/runs/$1
    shift
    if [ -f "$run/last.ckpt" ]; then
        # The saved recipe has the number of steps that was found at the start.
        "$PYTHON" -m nco train "$run/recipe.yaml" --ckpt_path last
    else
        "$PYTHON" -m nco train "$checkout/trainers/$name.yaml" --seconds "${SECONDS_EACH:-270}" \
            --trainer.accelerator gpu "$@" --trainer.default_root_dir "$run"
    fi
    local checkpoint=$run/best.ckpt
    if [ ! -f "$checkpoint" ]; then checkpoint=$run/last.ckpt; fi
    "$PYTHON" -m nco convert --weights "$checkpoint" "$out/$name"
}

{
    for problem in ${PROBLEMS:-tsp cvrp}; do train "l2c-insert-$problem" "$@"; done
} 2>&1 | tee -a "$out/train.log"
