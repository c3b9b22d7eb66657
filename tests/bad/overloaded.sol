Route #1: 1
Route #2: 2 3
Cost 20
