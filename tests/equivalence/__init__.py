"""One answer whatever the way: cuts of the arrivals, order between streams, settings of the engine."""
