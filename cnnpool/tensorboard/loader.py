"""The plugin's entry point: cheap to import, because every ``tensorboard`` in the environment imports it."""

from tensorboard.plugins.base_plugin import TBContext, TBLoader, TBPlugin


class Loader(TBLoader):  # type: ignore[misc]
    """Makes the plugin for a TensorBoard that was started with ``--logdir``."""

    def load(self, context: TBContext) -> TBPlugin | None:
        """The plugin; None if there is no local folder."""
        if not context.logdir or "://" in context.logdir:
            return None
        from cnnpool.tensorboard.plugin import Plugin

        return Plugin(context)
