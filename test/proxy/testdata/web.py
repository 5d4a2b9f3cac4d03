#!/usr/bin/env python3
"""A web worker that finishes its requests on SIGTERM."""
import http.server
import os
import signal
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    requests = 0

    def do_GET(self):
        text = os.environ["HPAD_INSTANCE"] + " " + os.environ.get("VERSION", "")
        if self.path == "/ready":
            if "UNREADY" in os.environ:
                self.send_error(503)
                return
        elif self.path == "/metrics":
            text = f"# TYPE http_requests_total counter\nhttp_requests_total {Handler.requests}\n"
        else:
            time.sleep(0.05)
            Handler.requests += 1
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # server_close waits for active requests
    request_queue_size = 128


server = Server(("127.0.0.1", int(os.environ["HPAD_PORT"])), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever(poll_interval=0.05)
server.server_close()
