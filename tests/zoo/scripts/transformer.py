import torch
from ending import tell
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 50)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.body(self.embed(x), mask=mask, is_causal=True))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=30)
losses = []
for _ in range(30):
    x = torch.randint(0, 50, (4, 12))
    loss = nn.functional.cross_entropy(model(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten())
    loss.backward()
    losses.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    optimizer.step()
    schedule.step()
    optimizer.zero_grad(set_to_none=False)
    losses.append(loss)
tell(losses, model, optimizer)
