"""What the papers compare with: static plans for many queries in the manner of NiagaraCQ (Chen et al., 2000 and 2002).

A static plan can share an operator only between queries whose rows are the same there, since a row does not say which queries it is
still for. So rows are copied, one for each query (`constants`), and split. The other baseline, every query by itself, is the engine
with `share=False`.
"""
