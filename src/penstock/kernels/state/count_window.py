"""Count windows: which row each arrival pushes out."""

from __future__ import annotations

from penstock.kernels.compile import kernel


@kernel
def displace(
    times, slots, gids, limit, ts, later, plus, size, oldest, newest, out_time, out_slot, out_sign, gone
):  # fmt: skip
    """Rows in (ts, arrival) order; out gets '+' for each and '-' for the row it displaces.

    A row displaced in the instant it came is never shown: its '+' gets sign 0. Returns (outputs, rows gone).
    """
    n = 0
    lost = 0
    for i in range(times.shape[0]):
        t = times[i]
        s = slots[i]
        g = gids[i]
        if size[g] == limit:
            d = oldest[g]
            oldest[g] = later[d]
            size[g] -= 1
            if ts[d] == t:
                out_sign[plus[d]] = 0
            else:
                out_time[n] = t
                out_slot[n] = d
                out_sign[n] = -1
                n += 1
            gone[lost] = d
            lost += 1
        if size[g] == 0:
            oldest[g] = s
        else:
            later[newest[g]] = s
        newest[g] = s
        size[g] += 1
        plus[s] = n
        out_time[n] = t
        out_slot[n] = s
        out_sign[n] = 1
        n += 1
    return n, lost
