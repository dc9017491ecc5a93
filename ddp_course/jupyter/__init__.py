"""What `make lab` brings to JupyterLab: its settings (`labconfig/`) and the welcome beside the first lesson."""
