"""The exact scores of nodes by what they publish: each word is read once, and scored once for a kind of pod."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import Final, Generic, TypeVar

from policies.devices.links import LinkError, LinkMatrix, node_score, read_annotation

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Nodes of a model publish the same word, so that a cluster has few; one that is read has 496 links at most.
_MAX_WORDS: Final = 1024
_MAX_SCORES: Final = 16_384


@dataclass(frozen=True, slots=True)
class PublishedLinks:
    """The matrix of a word, or why it cannot be read."""

    matrix: LinkMatrix | None
    problem: str = ""

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return len(self.matrix.gpus) if self.matrix is not None else 0


class RecentlyUsed(Generic[K, V]):
    """The results of a function for the arguments that were asked last, so many of them. For any thread."""

    def __init__(self, function: Callable[[K], V], most: int) -> None:
        """Keep at most ``most`` results."""
        self._function, self._most = function, most
        self._results: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def __contains__(self, key: object) -> bool:
        return key in self._results

    def __getitem__(self, key: K) -> V:
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        # Without the lock: this may take seconds, in which known results must be found.
        result = self._function(key)
        with self._lock:
            self._results[key] = result
            if len(self._results) > self._most:
                self._results.popitem(last=False)
        return result


class NodeScores:
    """Words read, and pods scored on them. For any thread."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self._links = RecentlyUsed(_read, _MAX_WORDS)
        self._scores = RecentlyUsed(self._score, _MAX_SCORES)

    def links(self, word: str) -> PublishedLinks:
        """Return the matrix of this word."""
        return self._links[word]

    def is_known(self, word: str, sizes: tuple[int, ...], free: frozenset[int] | None = None) -> bool:
        """Return whether ``exact`` answers at once."""
        return (word, sizes, free) in self._scores

    def exact(self, word: str, sizes: tuple[int, ...], free: frozenset[int] | None = None) -> Fraction | None:
        """Return the score of KEP-690, 0 to 100, for containers with so many GPUs each; None where they do not fit.

        It is that of those that are ``free``; None: of all GPUs that are published.
        """
        return self._scores[word, sizes, free]

    def _score(self, key: tuple[str, tuple[int, ...], frozenset[int] | None]) -> Fraction | None:
        word, sizes, free = key
        matrix = self._links[word].matrix
        if matrix is None:
            return None
        available = matrix.indices if free is None else matrix.indices & free
        return None if sum(sizes) > len(available) else node_score(matrix, sizes, available).exact


def _read(word: str) -> PublishedLinks:
    try:
        return PublishedLinks(read_annotation(word))
    except LinkError as error:
        return PublishedLinks(None, str(error))
