"""What Prometheus reads: requests by status, their times, tokens by role, the line."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from envace.serve.limits import Gate
from envace.serve.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self, service: Service, gate: Gate) -> None:
        """Watch a service and the gate in front of it."""
        self._service = service
        self._gate = gate
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "envace_requests", "Chat completions by HTTP status; 499 left early", ["status"],
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "envace_request_seconds",
            "From the first byte to the last",
            buckets=SECONDS,
            registry=self._registry,
        )
        self._registry.register(self)

    def observe(self, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(str(status)).inc()
        self._seconds.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """What is read where it stands; called by the registry."""
        tokens = CounterMetricFamily("envace_tokens", "Tokens by role", labels=["role"])
        spent = self._service.spent()
        for role, count in (("prompt", spent.prompt), ("act", spent.act), ("rehearse", spent.rehearse)):
            tokens.add_metric([role], count)
        yield tokens
        yield GaugeMetricFamily("envace_requests_running", "Requests at work", self._gate.running)
        yield GaugeMetricFamily("envace_requests_waiting", "Requests in line", self._gate.waiting)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
