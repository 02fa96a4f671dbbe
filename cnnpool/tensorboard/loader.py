"""The door of the plugin: cheap to import, since every ``tensorboard`` in the environment does."""

from tensorboard.plugins.base_plugin import TBContext, TBLoader, TBPlugin


class Loader(TBLoader):  # type: ignore[misc]
    """Makes the plugin for a TensorBoard that was started with ``--logdir``."""

    def load(self, context: TBContext) -> TBPlugin | None:
        """The plugin; None where there is no folder of this machine to look into."""
        if not context.logdir or "://" in context.logdir:
            return None
        from cnnpool.tensorboard.plugin import Plugin

        return Plugin(context)
