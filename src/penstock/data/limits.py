"""What one query may ask for: beyond it there is an error instead of a machine without memory or time.

Unlike `sizes` these are part of what users see; `docs/sql.md` lists them.
"""

from __future__ import annotations

TEXT_BYTES = 1 << 24
"""Of a text that a function makes."""
