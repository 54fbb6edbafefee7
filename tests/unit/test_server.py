"""The page of runs is served to browsers of this machine alone: one page, its news, and nothing else."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from firth.base.errors import InputError
from firth.base.journal import Journal
from firth.output.server import LOOPBACK, PageServer
from firth.verbs.curves import followed

SECRET = "nobody's business"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with a journal, and files beside it that nobody named."""
    (tmp_path / "secret.txt").write_text(SECRET)
    folder = tmp_path / "a.run"
    folder.mkdir()
    (folder / "lock").write_text("1")
    asked = {"corpus": [SECRET], "model": "gpt"}
    (folder / "plan.json").write_text(json.dumps({"asked": asked, "training": {}}))
    Journal(folder / "metrics.jsonl").add(step=1, loss=2.0, rate=0.1, tokens=5, seconds=1.0)
    return folder


@pytest.fixture
def server(run: Path) -> Iterator[PageServer]:
    with followed([str(run)]) as opened:
        thread = threading.Thread(target=opened.serve_forever, args=(0.01,))
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


def ask(
    server: PageServer,
    path: str,
    method: str = "GET",
    hosts: tuple[str, ...] | None = None,
    **headers: str,
) -> tuple[int, dict[str, str], str]:
    """Ask for a path just as it is written."""
    connection = http.client.HTTPConnection(LOOPBACK, server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    for host in (f"{LOOPBACK}:{server.server_port}",) if hosts is None else hosts:
        connection.putheader("Host", host)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), text


def test_the_page_and_its_news(server: PageServer, run: Path) -> None:
    status, headers, page = ask(server, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "connect-src 'self'" in page
    assert '"follows":true' in page
    status, headers, news = ask(server, "/runs.json")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    (found,) = json.loads(news)["runs"]
    assert (found["name"], found["what"], found["loss"]) == ("a.run", "pretrain gpt", [2.0])
    assert SECRET not in page + news
    assert str(run) not in page + news
    for name, value in {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Content-Security-Policy": "frame-ancestors 'none'",
    }.items():
        assert headers[name] == value
    assert "Access-Control-Allow-Origin" not in headers


def test_news_are_told_once(server: PageServer, run: Path) -> None:
    _, headers, _ = ask(server, "/runs.json")
    seen = headers["ETag"]
    status, headers, text = ask(server, "/runs.json", If_None_Match=seen)
    assert (status, headers["ETag"], text) == (304, seen, "")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "loss": 1.0, "rate": 0.1, "tok')
        file.flush()
        assert ask(server, "/runs.json", If_None_Match=seen)[0] == 304
        file.write('ens": 5, "seconds": 2.0}\n')
        file.flush()
        status, headers, news = ask(server, "/runs.json", If_None_Match=seen)
    assert status == 200
    assert headers["ETag"] != seen
    assert json.loads(news)["runs"][0]["loss"] == [2.0, 1.0]


def test_a_run_that_is_killed_resumed_damaged_and_gone(server: PageServer, run: Path) -> None:
    def told() -> tuple[list[int], str, str]:
        (found,) = json.loads(ask(server, "/runs.json")[2])["runs"]
        return found["steps"], found["state"], found["remark"]

    journal = Journal(run / "metrics.jsonl")
    for step in (2, 3, 4):
        journal.add(step=step, loss=1.0, seconds=1.0 * step)
    assert told() == ([1, 2, 3, 4], "stopped", "")
    journal.cut(2)
    journal.add(step=3, loss=1.0, seconds=9.0)
    assert told() == ([1, 2, 3], "stopped", "")
    with journal.path.open("a") as file:
        file.write("???\n")
    steps, _, remark = told()
    assert steps == [1, 2, 3]
    assert "metrics.jsonl:4 is no record" in remark
    journal.cut(1)
    assert told() == ([1], "stopped", "")
    journal.path.unlink()
    assert told() == ([], "stopped", "nothing is noted yet")
    journal.add(step=1, loss=1.0, seconds=1.0)
    (run / "curves.html").touch()
    assert told() == ([1], "finished", "")


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/runs.json/",
        "/runs.json?seen=1",
        "/?x",
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "/..\\secret.txt",
        "/./../../../../etc/passwd",
        "/metrics.jsonl",
        "/a.run/plan.json",
        "http://127.0.0.1/",
        "*",
    ],
)
def test_nothing_else_is_there(server: PageServer, path: str) -> None:
    status, _, text = ask(server, path)
    assert (status, text) == (404, "There is nothing here.\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"])
def test_only_get(server: PageServer, method: str) -> None:
    status, _, text = ask(server, "/", method)
    assert status == 501
    assert "a.run" not in text


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("",),
        ("example.com",),
        ("127.0.0.1.example.com",),
        ("localhost.example.com:80",),
        ("127.0.0.1@example.com",),
        ("127.0.0.1:80:80",),
        ("127.0.0.1:",),
        ("127.0.0.2",),
        ("0.0.0.0",),
        ("[::]",),
        ("127.0.0.1", "example.com"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
@pytest.mark.parametrize("path", ["/", "/runs.json"])
def test_a_page_of_another_name_is_refused(
    server: PageServer, hosts: tuple[str, ...], path: str
) -> None:
    status, _, text = ask(server, path, hosts=hosts)
    assert status == 403
    assert "a.run" not in text


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST:8000", "[::1]:80", "localhost:1"]
)
def test_this_machine_has_several_names(server: PageServer, host: str) -> None:
    assert ask(server, "/", hosts=(host,))[0] == 200


def test_it_listens_on_this_machine_alone(server: PageServer) -> None:
    assert server.address == f"http://127.0.0.1:{server.server_port}/"
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_a_silent_browser_keeps_nobody_waiting(server: PageServer) -> None:
    with socket.create_connection((LOOPBACK, server.server_port)) as silent:
        silent.send(b"GET / HT")
        assert ask(server, "/")[0] == 200


def test_a_port_that_is_taken(server: PageServer, run: Path) -> None:
    with (
        pytest.raises(InputError, match=f"port {server.server_port} can't be used .*in use"),
        followed([str(run)], server.server_port),
    ):
        pass
