"""How a cell becomes ranks: kernel → warm server → torchrun's agent → the learner's script.

`launch` is the way in. `client` and `server` are the two ends of the warm path, `agent` and `worker` what runs
under them, `live`, `tail` and `transcript` what the ranks say on its way back.
"""
