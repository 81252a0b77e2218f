"""The second wall, in a process of its own: what is refused, and what still works."""

import subprocess
import sys
from pathlib import Path

import pytest

from envace.benchmarks.inside import confine

BEFORE = """
import os, pathlib, shutil, socket, subprocess, sys, threading
sys.path.insert(0, {inside!r})
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
other = socket.create_server(("127.0.0.1", 0)).getsockname()[1]
from confine import Confined, confine
confine(pathlib.Path.cwd(), f"http://127.0.0.1:{{port}}/v1")
"""


def after(code, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "own").write_text("kept")
    script = BEFORE.format(inside=str(Path(confine.__file__).parent)) + code.replace("OUT", str(tmp_path))
    return subprocess.run(
        [sys.executable, "-c", script], cwd=work, capture_output=True, text=True, check=False
    )


REFUSED = [
    "open('OUT/new', 'w')",
    "open('OUT/own', 'a')",
    "os.open('OUT/new', os.O_CREAT | os.O_WRONLY)",
    "pathlib.Path('OUT/new').touch()",
    "os.remove('OUT/own')",
    "os.rename('OUT/own', 'taken')",
    "os.rename(open('here', 'w').name, 'OUT/new')",
    "os.symlink('OUT', 'way'); open('way/new', 'w')",
    "os.mkdir('OUT/new')",
    "shutil.rmtree('OUT')",
    "os.chdir('..'); open('new', 'w')",
    "os.system('touch OUT/new')",
    "subprocess.run(['touch', 'OUT/new'])",
    "os.execv('/usr/bin/touch', ['touch', 'OUT/new'])",
    "os.posix_spawn('/usr/bin/touch', ['touch', 'OUT/new'], {})",
    "os.fork()",
    "socket.create_connection(('127.0.0.1', other))",
    "socket.getaddrinfo('example.org', 80)",
    "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', other))",
    "socket.socket().bind(('127.0.0.1', 0))",
    "os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=os.open('OUT', os.O_RDONLY))",
    "os.open('../new', os.O_CREAT | os.O_WRONLY)",
]


@pytest.mark.parametrize("code", REFUSED)
def test_refused(tmp_path, code):
    done = after(code, tmp_path)
    assert "Confined: no " in done.stderr and done.returncode == 1
    assert not (tmp_path / "new").exists() and (tmp_path / "own").read_text() == "kept"


def test_files_of_its_own_reading_threads_and_the_endpoint_work(tmp_path):
    code = """
pathlib.Path('deep/er').mkdir(parents=True)
open('deep/er/x', 'w').write('1')
shutil.rmtree('deep')
open(os.devnull, 'w').close()
threading.Thread(target=lambda: socket.create_connection(('127.0.0.1', port))).start()
server.accept()
print(open('OUT/own').read(), os.listdir('OUT') != [], 'done')
"""
    done = after(code, tmp_path)
    assert (done.stdout.split(), done.stderr) == (["kept", "True", "done"], "")
