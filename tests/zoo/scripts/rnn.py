import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
losses, models = [], []
for kind in (nn.LSTM, nn.GRU, nn.RNN):
    body, head = kind(8, 16, num_layers=2, dropout=0.1, batch_first=True), nn.Linear(16, 8)
    model = nn.ModuleList([body, head])
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    state = None
    for _ in range(15):
        x = torch.randn(4, 6, 8)
        out, state = body(x, state)
        state = tuple(s.detach() for s in state) if kind is nn.LSTM else state.detach()
        loss = (head(out) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    models.append(model)
packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 5, 8), [5, 3, 2], batch_first=True)
losses.append(models[0][0](packed)[0].data.sum())
tell(losses, *models)
