"""Penstock: standing SQL queries over streams."""
