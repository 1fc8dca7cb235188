"""A view of what lies in the store: it is loaded, and loaded again whenever somebody has changed it."""

from abc import abstractmethod

from artifactflow_nb.widgets.run_news import RunNews
from artifactflow_nb.widgets.view import Screen, View
from artifactflow_nb.widgets.watch import Watch


class WatchedView(View):
    """Follows the store from its opening on, and at once what a run makes that it hears."""

    def __init__(self) -> None:
        self._watch = Watch(self._state, self._follow)
        self._run_news = RunNews(self._watch.look)

    async def open(self, screen: Screen) -> None:
        """Load what is to be shown, and follow the store from then on."""
        await super().open(screen)
        await self._watch.start()  # first: what comes while it is loaded is seen by the next look
        await self._load()

    def close(self) -> None:
        """Stop following."""
        self._watch.stop()
        self._run_news.close()

    @abstractmethod
    async def _state(self) -> object:
        """Something small that is another whenever there is something new to show."""

    @abstractmethod
    async def _load(self) -> None:
        """Read from the store what is shown."""

    @abstractmethod
    async def _follow(self) -> None:
        """Load anew, now that the state is another, and have the pages show it."""
