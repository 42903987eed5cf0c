"""A mail server and a web server that append what they get to a file each."""

import socketserver
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

MAIL, POSTS = map(Path, sys.argv[1:])


class Mail(socketserver.StreamRequestHandler):
    """The few words of SMTP that a sender needs."""

    def handle(self):
        """Answer until the sender is done."""
        self._say("220 ready")
        while line := self.rfile.readline().strip():
            word = line[:4].upper()
            if word == b"DATA":
                self._say("354 go on")
                self._keep()
            self._say("221 bye" if word == b"QUIT" else "250 ok")
            if word == b"QUIT":
                return

    def _keep(self):
        with MAIL.open("ab") as file:
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                file.write(line.replace(b"\r\n", b"\n"))

    def _say(self, text):
        self.wfile.write(f"{text}\r\n".encode())


class Posts(BaseHTTPRequestHandler):
    """Whatever is posted."""

    def do_POST(self):
        """Keep a line."""
        with POSTS.open("ab") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])).strip() + b"\n")
        self.send_response(200)
        self.end_headers()


if __name__ == "__main__":
    Thread(target=ThreadingHTTPServer(("127.0.0.1", 8025), Posts).serve_forever).start()
    socketserver.ThreadingTCPServer(("127.0.0.1", 2525), Mail).serve_forever()
