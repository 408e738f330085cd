"""The participants, one module and one process each; ``python -m bench.peers.NAME`` is driven by ``bench``."""
