"""A server of its own process, for tests that end it: `slow_server.py MODEL_FOLDER`."""

import sys

from served_policy import SlowEngine, backend

from envace.chat import CompactTemplate
from envace.serve.runner import serve_forever

if __name__ == "__main__":
    template = CompactTemplate(sys.argv[1])
    serve_forever(backend(template, SlowEngine(template, 0.02)), port=0)
