"""A bucket on this machine: moto's S3 in a process of its own, and files put into it."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUCKET = "corpus"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "the-secret-of-the-test"}
SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@dataclass
class Bucket:
    """What a test does with it besides reading."""

    endpoint: str
    client: Any

    def put(self, key: str, data: bytes) -> str:
        """Writes an object; its URI."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=data)
        return f"s3://{BUCKET}/{key}"

    def put_folder(self, folder: Path, under: str) -> str:
        """Writes all files of a folder; the URI that stands for it."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{under}/{path.relative_to(folder)}", path.read_bytes())
        return f"s3://{BUCKET}/{under}"


@contextlib.contextmanager
def served_bucket() -> Iterator[Bucket]:
    """A server with an empty bucket, and the environment that leads to it."""
    import boto3

    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None and server.stdout is not None
    before = dict(os.environ)
    try:
        ready, _, _ = select.select([server.stdout], [], [], 120)
        assert ready, "moto's server did not start"
        endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
        os.environ.update(KEYS)
        os.environ.update({"AWS_ENDPOINT_URL_S3": endpoint, "AWS_REGION": "us-east-1"})
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield Bucket(endpoint, client)
    finally:
        os.environ.clear()
        os.environ.update(before)
        server.stdin.close()
        server.wait(60)
        server.stdout.close()
