"""These run by ``make conformance`` alone: they need Node and a package from npm."""

import os

collect_ignore = [] if "MEMORY_SITE_TEST_CONFORMANCE" in os.environ else ["test_server.py"]
