"""How much decoding time each client has had, so that one who had less can go first."""

from collections.abc import Collection, Iterable, Sequence


class Shares:
    """Seconds of decoding by client.

    A client that comes back starts at what the least served active one has had: who was away has nothing saved up, and
    who asks for one query after the other is not forgotten between two.
    """

    def __init__(self) -> None:
        """Begin without clients."""
        self._seconds: dict[str, float] = {}

    def arrive(self, clients: Iterable[str], active: Collection[str]) -> None:
        """Count clients with new queries; `active` ones have others that are waiting or being decoded."""
        floor = min((self.of(client) for client in active), default=0.0)
        self._seconds = {name: used for name, used in self._seconds.items() if used > floor or name in active}
        for client in set(clients) - {*active}:
            self._seconds[client] = max(self.of(client), floor)

    def of(self, client: str) -> float:
        """Return the seconds of a client."""
        return self._seconds.get(client, 0.0)

    def charge(self, clients: Sequence[str], seconds: float) -> None:
        """Add seconds in which a batch was decoded; `clients` are those of its queries, one for each."""
        for client in clients:
            self._seconds[client] = self.of(client) + seconds / len(clients)

    def clear(self) -> None:
        """Forget all clients, when no query waits."""
        self._seconds.clear()
