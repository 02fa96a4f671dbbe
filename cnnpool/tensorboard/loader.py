"""The plugin's entry point: cheap to import, because every ``tensorboard`` in the environment imports it."""

from pathlib import Path

from tensorboard.plugins.base_plugin import TBContext, TBLoader, TBPlugin


class Loader(TBLoader):  # type: ignore[misc]
    """Makes the plugin for a TensorBoard that was started with ``--logdir`` or ``--logdir_spec``."""

    def load(self, context: TBContext) -> TBPlugin | None:
        """The plugin; None if there is no local folder."""
        spec = getattr(context.flags, "logdir_spec", "") or ""
        # name:folder, or a folder alone; --logdir is one folder, whatever its name.
        named = [part.partition(":")[2] or part for part in spec.split(",") if part and "://" not in part]
        roots = [context.logdir] if context.logdir and "://" not in context.logdir else named
        if not roots:
            return None
        from cnnpool.tensorboard.plugin import Plugin

        return Plugin([Path(root).expanduser() for root in roots])
