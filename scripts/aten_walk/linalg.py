"""Draws calls of ops that factor matrices."""
import torch

from draw import T
from pointwise import call


def square(r):
    n = r.of(0, 1, 2, 3, 3, 4)
    return r.shape(rank=r.of(0, 0, 1, 2)) + [n, n]


def matrix(r):
    return r.shape(rank=r.of(0, 0, 1, 2)) + [r.size(), r.size()]


def ill(r, shape):
    """Sometimes a shape that is no matrix, or not square."""
    return shape if r.flip(0.93) else r.of(shape[-1:], shape[:-1] + [5])


@call("linalg_inv", "inverse", "linalg_slogdet", "slogdet", "logdet")
def _square(r):
    return [T(ill(r, square(r)), plain=r.flip(0.9))], {}


@call("linalg_inv_ex")
def _inv_ex(r):
    return _square(r)[0], r.some(check_errors=(True, False))


@call("linalg_cholesky", "cholesky")
def _cholesky(r):
    return [T(ill(r, square(r)))], r.some(upper=(True, False))


@call("linalg_cholesky_ex")
def _cholesky_ex(r):
    return _cholesky(r)[0], r.some(upper=(True, False), check_errors=(True, False))


@call("cholesky_inverse")
def _cholesky_inverse(r):
    return [T(ill(r, square(r)), plain=True)], r.some(upper=(True, False))


@call("cholesky_solve")
def _cholesky_solve(r):
    s = square(r)
    return [T((s[:-2] if r.flip(0.7) else []) + [s[-1], r.size()], plain=True), T(ill(r, s), plain=True)], r.some(upper=(True, False))


def equation(r, left):
    s = square(r)
    b = [s[-1], r.size()] if left else [r.size(), s[-1]]
    return s, r.of(s[:-2], s[:-2], [1] * len(s[:-2]), [], [2] + s[:-2]) + (b if r.flip(0.95) else [7, 7])


@call("linalg_solve")
def _solve(r):
    left = r.flip(0.7)
    s, b = equation(r, left)
    if left and r.flip(0.2):
        b = r.of(s[:-1], s[-1:])
    return [T(ill(r, s), plain=True), T(b, r.other_dtype(0.03), plain=True)], {} if left and r.flip() else {"left": left}


@call("linalg_solve_ex")
def _solve_ex(r):
    ins, attrs = _solve(r)
    return ins, dict(attrs, **r.some(check_errors=(True, False)))


@call("linalg_solve_triangular")
def _solve_triangular(r):
    left = r.flip(0.7)
    s, b = equation(r, left)
    return [T(ill(r, s), plain=True), T(b, plain=True)], dict(r.some(unitriangular=(True, False)), upper=r.flip(), left=left)


@call("triangular_solve")
def _triangular_solve(r):
    s, b = equation(r, True)
    return [T(b, plain=True), T(ill(r, s), plain=True)], r.some(upper=(True, False), transpose=(True, False), unitriangular=(True, False))


@call("linalg_lu_factor", "linalg_lu")
def _lu(r):
    return [T(ill(r, matrix(r)), plain=r.flip(0.9))], r.some(pivot=(True, True, True, False))


@call("linalg_lu_factor_ex")
def _lu_ex(r):
    return _lu(r)[0], r.some(check_errors=(True, False))


def pivots(s):
    return T(s[:-2] + [min(s[-2:])], torch.int32, lo=1, hi=min(s[-2:]) + 1)


@call("lu_unpack")
def _lu_unpack(r):
    s = matrix(r)
    return [T(s), pivots(s)], r.some(unpack_data=(True, False), unpack_pivots=(True, False))


@call("linalg_lu_solve")
def _lu_solve(r):
    left = r.flip(0.7)
    s, b = equation(r, left)
    return [T(s, plain=True), pivots(s), T(b, plain=True)], dict(r.some(adjoint=(True, False)), left=left)


@call("lu_solve")
def _old_lu_solve(r):
    s, b = equation(r, True)
    return [T(b, plain=True), T(s, plain=True), pivots(s)], {}


@call("linalg_qr")
def _qr(r):
    return [T(ill(r, matrix(r)), plain=r.flip(0.9))], r.some(mode=("reduced", "complete", "r"))


@call("qr")
def _old_qr(r):
    return [T(ill(r, matrix(r)), plain=True)], r.some(some=(True, False))


@call("geqrf")
def _geqrf(r):
    return [T(ill(r, matrix(r)), plain=True)], {}


@call("linalg_householder_product", "orgqr")
def _householder(r):
    s = matrix(r)
    return [T(s, plain=True), T(s[:-2] + [r.rng.randrange(s[-1] + 1)], plain=True)], {}


@call("linalg_eigh", "linalg_eigvalsh")
def _eigh(r):
    return [T(ill(r, square(r)), plain=r.flip(0.95))], r.some(UPLO=("L", "U"))


def driver(r):
    return {"driver": r.of("gesvd", "gesvdj")} if r.flip(0.1) else {}


@call("linalg_svd")
def _svd(r):
    return [T(ill(r, matrix(r)), plain=r.flip(0.95))], dict(r.some(full_matrices=(True, False)), **driver(r))


@call("linalg_svdvals")
def _svdvals(r):
    return [T(ill(r, matrix(r)), plain=r.flip(0.95))], driver(r)


@call("svd")
def _old_svd(r):
    return [T(ill(r, matrix(r)), plain=True)], r.some(some=(True, False), compute_uv=(True, True, False))


@call("linalg_matrix_power", "matrix_power")
def _matrix_power(r):
    return [T(ill(r, square(r)), plain=True)], {"n": r.of(0, 1, 2, 3, 5, 7, -1, -2)}


@call("linalg_multi_dot")
def _multi_dot(r):
    n = r.of(1, 2, 3, 3, 4, 5)
    s = [r.size() for _ in range(n + 1)]
    shapes = [s[i:i + 2] for i in range(n)]
    if r.flip(0.2):
        shapes[0] = shapes[0][1:]
    if r.flip(0.2):
        shapes[-1] = shapes[-1][:1]
    return [T(x if r.flip(0.97) else [2, 7], plain=True) for x in shapes], {}


RANK = dict(atol=(0.5, 1.0), rtol=(0.1, 0.5), hermitian=(True, False))


def with_tolerances(r, s, hermitian):
    """A call with tolerances as operands."""
    def one():
        return T(r.of([], s[:-2], s[-3:-2]), r.of(torch.float32, torch.float64, None), pos=True, plain=True)
    atol, rtol = one() if r.flip(0.7) else None, one() if r.flip(0.7) else None
    return [T(s, plain=True), atol, rtol], {"hermitian": hermitian} if hermitian or r.flip(0.3) else {}


@call("linalg_pinv")
def _pinv(r):
    attrs = r.some(**RANK)
    if r.flip(0.4):
        return with_tolerances(r, square(r) if attrs.get("hermitian") else matrix(r), attrs.get("hermitian", False))
    if attrs.get("hermitian"):
        return [T(square(r), plain=True)], attrs
    return [T(ill(r, matrix(r)), plain=True)], attrs if r.flip(0.8) else {"rcond": 0.3}


@call("pinverse")
def _pinverse(r):
    return [T(ill(r, matrix(r)), plain=True)], r.some(rcond=(0.1, 0.5))


@call("linalg_matrix_rank")
def _matrix_rank(r):
    attrs = r.some(**RANK)
    if r.flip(0.4):
        return with_tolerances(r, square(r) if attrs.get("hermitian") else matrix(r), attrs.get("hermitian", False))
    return [T(square(r) if attrs.get("hermitian") else ill(r, matrix(r)), plain=True)], attrs


ORD = ("fro", "nuc", 1, 2, -1, -2, float("inf"), -float("inf"))


@call("linalg_matrix_norm")
def _matrix_norm(r):
    s = r.shape(rank=r.of(2, 2, 3, 4, 1))
    return [T(s, plain=True)], dict(r.some(ord=ORD + (3, 0.5, 1.0, 2.0), dim=([r.dim(s), r.dim(s)],), keepdim=(True, False)))


@call("linalg_norm")
def _norm(r):
    s = r.shape()
    return [T(s, plain=True)], r.some(ord=ORD + (0, 3, 0.5, -1.5, 2.0, 2.5), dim=([r.dim(s), r.dim(s)], [r.dim(s)]), keepdim=(True, False))


@call("linalg_matrix_exp", "matrix_exp")
def _matrix_exp(r):
    return [T(ill(r, square(r)), plain=True)], {}


@call("ormqr")
def _ormqr(r):
    s = matrix(r)
    k = r.rng.randrange(min(s[-2:]) + 1)
    left = r.flip()
    other = s[:-2] + ([s[-2], r.size()] if left else [r.size(), s[-2]])
    return [T(s, plain=True), T(s[:-2] + [k], plain=True), T(other if r.flip(0.95) else other[1:], plain=True)], dict(
        r.some(transpose=(True, False)), left=left)


@call("linalg_cond")
def _cond(r):
    return [T(ill(r, square(r) if r.flip(0.8) else matrix(r)), plain=True)], r.some(p=ORD + (3,))


@call("linalg_tensorinv")
def _tensorinv(r):
    return [T(r.of([6, 2, 3], [2, 3, 6], [4, 2, 2], [2, 2, 2, 2], [1, 1], [0, 0], [2, 3]), plain=True)], r.some(ind=(1, 2, 3, 0))


@call("linalg_tensorsolve")
def _tensorsolve(r):
    a, b = r.of(([2, 3, 6], [2, 3]), ([6, 2, 3], [6]), ([2, 2, 4], [2, 2]), ([2, 6, 3], [2, 3]), ([0, 0], [0]), ([2, 3], [2]))
    return [T(a, plain=True), T(b, plain=True)], {"dims": [1]} if a == [2, 6, 3] or r.flip(0.1) else {}


@call("linalg_vander")
def _vander(r):
    return [T(r.shape(), plain=True)], r.some(N=(2, 3, 5, 1))


@call("linalg_lstsq")
def _lstsq(r):
    s = matrix(r)
    b = r.of(s[:-2], s[:-2], s[:-2], [1] * len(s[:-2]), []) + [s[-2]]
    if r.flip(0.7):
        b.append(r.of(1, 2, 3))
    return [T(ill(r, s), plain=True), T(b if r.flip(0.95) else [7, 7], r.other_dtype(0.03), plain=True)], dict(
        r.some(driver=("gels", "gelsy", "gelsd", "gelss")), **r.of({}, {}, {"rcond": 0.0}, {"rcond": 1e-3}, {"rcond": -1.0}))
