import torch
from ending import tell
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
blocks = nn.ModuleList(
    nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.3)) for _ in range(4)
)
optimizer = torch.optim.NAdam(blocks.parameters(), lr=1e-3)
losses = []
for step in range(24):
    x = torch.randn(4, 16, requires_grad=True)
    for n, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=bool((n + step) % 2), preserve_rng_state=True)
    x = checkpoint_sequential(nn.Sequential(*blocks[:2]), 2, x, use_reentrant=False)
    loss = x.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
tell(losses, blocks, optimizer)
