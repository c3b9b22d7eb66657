Route #1: 1 2
Route 3
Tour: 3 1
Cost 20
