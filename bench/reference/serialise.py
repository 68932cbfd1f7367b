"""How a column becomes tokens, as lib/data/serialise.ts has it (docs/data.md): the same rules in plain Python, for CTA with headers left out."""

import math
from array import array

CLS, SEP, CELL = 257, 258, 259
CONTEXT, TARGET = 1, 3
BUCKETS, VECTOR_CELLS, VECTOR_BYTES = 128, 8, 32
SCANNED_ROWS, SHORTEST_CUT = 4096, 3
MASK = 0xFFFFFFFF


class Random:
    """xoshiro128** seeded through FNV-1a and splitmix32."""

    def __init__(self, *stream):
        h = 0x811C9DC5
        for unit in units("\0".join(str(part) for part in stream)):
            h = ((h ^ unit) * 0x01000193) & MASK
        words = []
        for _ in range(4):
            h = (h + 0x9E3779B9) & MASK
            z = ((h ^ (h >> 16)) * 0x21F0AAAD) & MASK
            z = ((z ^ (z >> 15)) * 0x735A2D97) & MASK
            words.append(z ^ (z >> 15))
        self.a, self.b, self.c, self.d = words[0], words[1], words[2], words[3] | 1

    def uint32(self):
        scaled = (self.b * 5) & MASK
        result = ((((scaled << 7) | (scaled >> 25)) & MASK) * 9) & MASK
        t = (self.b << 9) & MASK
        self.c ^= self.a
        self.d ^= self.b
        self.b ^= self.c
        self.a ^= self.d
        self.c ^= t
        self.d = ((self.d << 11) | (self.d >> 21)) & MASK
        return result

    def int(self, n):
        limit = 4294967296 - 4294967296 % n
        word = self.uint32()
        while word >= limit:
            word = self.uint32()
        return word % n

    def sample(self, items, k):
        if len(items) <= k:
            return list(items)
        chosen = []
        for i, item in enumerate(items):
            if len(chosen) == k:
                break
            if self.int(len(items) - i) < k - len(chosen):
                chosen.append(item)
        return chosen


def units(text):
    """UTF-16 code units."""
    return array("H", text.encode("utf-16-le", "surrogatepass"))


def shape_of(byte):
    if 48 <= byte <= 57:
        return 48
    if 65 <= byte <= 90:
        return 65
    if 97 <= byte <= 122:
        return 97
    return byte


def bucket(a, b, salt):
    h = ((a * 256 + b + salt * 65537 + 1) * 0x9E3779B1) & MASK
    h ^= h >> 15
    return (((h * 0x85EBCA6B) & MASK) >> 16) % BUCKETS


def column_vector(cells):
    vector = array("f", [0.0]) * BUCKETS
    seen = set()
    for cell in cells[: 8 * VECTOR_CELLS]:
        if len(seen) == VECTOR_CELLS:
            break
        if cell == "" or cell in seen:
            continue
        seen.add(cell)
        raw1 = raw2 = shape1 = shape2 = 0
        for unit in units(cell)[:VECTOR_BYTES]:
            raw = unit & 0xFF
            shape = shape_of(raw)
            vector[bucket(raw, 0, 0)] += 1
            vector[bucket(raw1, raw, 1)] += 1
            vector[bucket((shape2 << 8) | shape1, shape, 2)] += 1
            raw2, raw1, shape2, shape1 = raw1, raw, shape1, shape
        vector[bucket(raw2, raw1, 3)] += 1
    norm = math.sqrt(sum(value * value for value in vector))
    return array("f", [value / norm for value in vector]) if norm > 0 else vector


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def marginal_relevance(target, candidates, count, weight):
    relevance = [dot(candidate, target) for candidate in candidates]
    redundancy = array("f", [0.0]) * len(candidates)
    open_, picked = list(range(len(candidates))), []
    while len(picked) < count and open_:
        best = max(open_, key=lambda i: (weight * relevance[i] - (1 - weight) * redundancy[i], -i))
        open_.remove(best)
        picked.append(best)
        for i in open_:
            redundancy[i] = max(redundancy[i], dot(candidates[i], candidates[best]))
    return picked


def choose_cells(cells, count, random):
    distinct, repeats = {}, []
    for cell in cells[:SCANNED_ROWS]:
        cell = cell.strip()
        if cell == "":
            continue
        if cell in distinct and len(repeats) < count:
            repeats.append(cell)
        distinct[cell] = True
    chosen = random.sample(list(distinct), count)
    return chosen + repeats[: count - len(chosen)]


def cut(data, limit):
    if len(data) <= limit:
        return data
    end = limit
    while end > 0 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def share_budget(wanted, total, target_share):
    first = max(1, min(wanted[-1], math.floor(target_share * total)))
    budgets, left = [0] * len(wanted), total - first
    smallest_first = sorted(range(len(wanted) - 1), key=lambda i: wanted[i])
    for done, i in enumerate(smallest_first):
        budgets[i] = min(wanted[i], left // (len(smallest_first) - done))
        left -= budgets[i]
    budgets[-1] = min(wanted[-1], first + left)
    return budgets


class Serialiser:
    def __init__(self, options):
        self.options = options

    def encode_table(self, columns):
        """(ids, roles, start of the target) of every column, whose cells are drawn as `annotate` does: the same for any name and place."""
        vectors = [column_vector(cells) for cells in columns]
        return [self.encode(columns, vectors, column) for column in range(len(columns))]

    def encode(self, columns, vectors, column):
        options = self.options
        random = Random(options["seed"], "", 0)
        candidates = [i for i in range(len(columns)) if i != column and any(vectors[i])]
        picked = marginal_relevance(vectors[column], [vectors[i] for i in candidates], options["maxContext"], options["relevance"])
        parts = []
        for i in picked:
            parts.insert(0, (CONTEXT, self.cells(columns[candidates[i]], options["contextCells"], random)))
        parts.append((TARGET, self.cells(columns[column], options["targetCells"], random)))
        budgets = share_budget([1 + sum(1 + len(cell) for cell in cells) for _, cells in parts], options["maxTokens"], options["targetShare"])
        ids, roles, start = [], [], 0
        for (role, cells), budget in zip(parts, budgets):
            start = len(ids)
            self.write(role, cells, budget, ids, roles)
        return ids, roles, start

    def cells(self, column, count, random):
        return [cut(cell.encode("utf-8"), self.options["cellBytes"]) for cell in choose_cells(column, count, random)]

    @staticmethod
    def write(role, cells, budget, ids, roles):
        left, target = budget - 1, role == TARGET
        if budget < 1 or (not target and left < 1 + SHORTEST_CUT):
            return
        for cell in cells:
            piece = cut(cell, max(0, left - 1))
            if len(piece) < min(len(cell), SHORTEST_CUT):
                break
            ids.append(CELL)
            ids.extend(piece)
            left -= 1 + len(piece)
            if len(piece) < len(cell):
                break
        ids.append(CLS if target else SEP)
        roles.extend([role] * (len(ids) - len(roles)))
