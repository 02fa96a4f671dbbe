"""The plugin's entry point: cheap to import, because every ``tensorboard`` in the environment imports it."""

from pathlib import Path

from tensorboard.plugins.base_plugin import TBContext, TBLoader, TBPlugin


class Loader(TBLoader):  # type: ignore[misc]
    """Makes the plugin for a TensorBoard that was started with ``--logdir`` or ``--logdir_spec``."""

    def load(self, context: TBContext) -> TBPlugin | None:
        """The plugin; None if there is no local folder."""
        spec = getattr(context.flags, "logdir_spec", "") or ""
        # --logdir is one folder, whatever its name.
        parts = [("", context.logdir)] if context.logdir else map(_named, spec.split(","))
        roots = {Path(root).expanduser(): name for name, root in parts if root and "://" not in root}
        if not roots:
            return None
        from cnnpool.tensorboard.plugin import Plugin

        return Plugin(roots)


def _named(part: str) -> tuple[str, str]:
    """The name, if any, and the folder of a part of ``--logdir_spec``, as TensorBoard reads it."""
    name, colon, folder = part.partition(":")
    is_named = colon and not part.startswith("/") and not folder.startswith("//")
    return (name, folder) if is_named else ("", part)
