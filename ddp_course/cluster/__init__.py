"""From this machine to a cluster: the job files to take home, and cells that run on a cluster's nodes."""
