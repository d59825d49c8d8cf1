"""The one-dimensional factors of Lagrange elements: nodes, quadrature points, B and D.

B[i, j] is the j-th basis function at the i-th quadrature point and D[i, j] its derivative. The
nodes are those of Gauss and Lobatto, the points those of Gauss and Legendre, on [-1, 1].
"""

from __future__ import annotations

from typing import Any


def lobatto_nodes(count: int) -> Any:
    """The `count` Gauss-Lobatto nodes in rising order: -1, 1 and the roots of P'_(count-1).

    The roots are found as eigenvalues and polished by Newton's method on P', whose derivative
    follows from Legendre's differential equation (1 - x^2) P'' = 2 x P' - m (m + 1) P; see
    Abramowitz and Stegun, 22.6.13 and 25.4.32.
    """
    import numpy as np
    from numpy.polynomial.legendre import Legendre

    m = count - 1
    if m == 0:
        return np.zeros(1)
    legendre = Legendre.basis(m)
    slope = legendre.deriv()
    inner = np.sort(slope.roots().real) if m > 1 else np.empty(0)
    for _ in range(3):
        first, value = slope(inner), legendre(inner)
        second = (2 * inner * first - m * (m + 1) * value) / (1 - inner**2)
        inner = inner - first / second
    inner = (inner - inner[::-1]) / 2
    return np.concatenate([[-1.0], inner, [1.0]])


def legendre_points(count: int) -> tuple[Any, Any]:
    """The `count` Gauss-Legendre points in rising order, and their weights."""
    import numpy as np

    return np.polynomial.legendre.leggauss(count)


def basis(nodes: Any, points: Any) -> tuple[Any, Any]:
    """Values and derivatives of the Lagrange basis on `nodes` at `points`.

    By the barycentric formulas of Berrut and Trefethen, "Barycentric Lagrange interpolation",
    SIAM Review 46 (2004): (4.2) for the values, (9.4) and (9.5) for the derivatives at the nodes,
    which are then interpolated.

    Returns:
        B and D, of shape (points, nodes).
    """
    import numpy as np

    difference = nodes[:, None] - nodes[None, :]
    np.fill_diagonal(difference, 1.0)
    # Scaled by the capacity of [-1, 1], 1/2, so that the products stay near 1 in high degrees.
    weights = 1.0 / np.prod(2.0 * difference, axis=1)

    slopes = (weights[None, :] / weights[:, None]) / difference
    np.fill_diagonal(slopes, 0.0)
    np.fill_diagonal(slopes, -slopes.sum(axis=1))

    apart = points[:, None] - nodes[None, :]
    exact = apart == 0.0
    apart[exact] = 1.0
    terms = weights / apart
    values = terms / terms.sum(axis=1)[:, None]
    hit = exact.any(axis=1)
    values[hit] = exact[hit]
    return values, values @ slopes


def factors(degree: int, points: int | None = None) -> tuple[Any, Any, Any]:
    """B, D and the quadrature weights of one axis.

    Args:
        degree: of the element; it has degree + 1 nodes.
        points: quadrature points; degree + 2 without it.
    """
    where, weights = legendre_points(degree + 2 if points is None else points)
    b, d = basis(lobatto_nodes(degree + 1), where)
    return b, d, weights
