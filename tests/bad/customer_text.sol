Route #1: 1 2
Route #2: three
Cost 20
