"""Language models on this machine: which there are, how they get here, and asking them in a process
of their own.
"""
