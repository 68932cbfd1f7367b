"""Makes softmax-regression.json: scikit-learn's LogisticRegression on a small sparse problem. Run with scikit-learn 1.9."""

import json
import sys

import numpy as np
from sklearn.linear_model import LogisticRegression

random = np.random.default_rng(7)
rows, features, classes = 40, 12, 4
x = random.normal(size=(rows, features)).round(3) * (random.random((rows, features)) < 0.4)
y = (x[:, :classes] + 0.8 * random.normal(size=(rows, classes))).argmax(1)
cases = []
for c in (0.5, 30.0):
    model = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(x, y)
    cases.append(
        {
            "c": c,
            "weight": model.coef_.T.round(7).tolist(),
            "bias": model.intercept_.round(7).tolist(),
            "logProbabilities": model.predict_log_proba(x[:5]).round(7).tolist(),
        }
    )
json.dump({"x": x.tolist(), "y": y.tolist(), "classes": classes, "cases": cases}, sys.stdout, indent=1)
