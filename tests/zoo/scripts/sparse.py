import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(50, 8, sparse=True)
bag = nn.EmbeddingBag(50, 8, mode="sum", sparse=True)
both = nn.ModuleList([table, bag])
optimizer = torch.optim.SparseAdam(list(both.parameters()), lr=0.01)
plain = torch.optim.SGD(both.parameters(), lr=0.01)
losses = []
for step in range(24):
    words = torch.randint(0, 50, (4, 6))
    loss = table(words).square().mean() + bag(words).mean()
    optimizer.zero_grad()
    loss.backward()
    losses.append(table.weight.grad.coalesce().values().sum())
    (optimizer if step % 2 else plain).step()
    losses.append(loss)
matrix = torch.eye(5).to_sparse()
losses.append(torch.sparse.mm(matrix, torch.ones(5, 2)).sum())
losses.append((matrix.to_sparse_csr() @ torch.ones(5, 2)).sum())
tell(losses, both)
