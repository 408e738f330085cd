"""The benchmark: this server, the same SQL without it, and what people use today, side by side in one run.

Every participant is driven by a process of its own (``bench.peers``) and told what to do over a line protocol
(``bench.driving``), so that the load generator shares no interpreter with anything that it measures.
"""
