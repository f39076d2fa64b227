package tile

// Products of byte matrices. In the k-loop, an accumulator register has 2x2 sums: two lanes of rows i and i+1, for an
// even i. Two registers together have the four lanes of vector v: one has the lower two, the other the upper two.
// Outside the k-loop, each register has the four lanes of one row, as in other tiles.

// matrixTerm emits the products of a term.
func (g *gen) matrixTerm(atIn int) {
	for i := 0; i < g.s.Rows; i += 2 {
		x := g.nextElement()
		if i+1 < g.s.Rows {
			g.neon.LoadPair(g.row(i, atIn), g.row(i+1, atIn), x)
		} else {
			g.Elements(g.row(i, atIn), 2, x)
		}
		for v := range g.s.Vectors {
			for half := range 2 {
				g.neon.MatrixProduct(x, g.vector(2*v+half), g.sum(i+half, v), g.s.SignedIn)
			}
		}
	}
}

// exchangeHalves converts the accumulators from one row per register to 2x2 sums, or back.
func (g *gen) exchangeHalves() {
	for i := 0; i < g.s.Rows; i += 2 {
		for v := range g.s.Vectors {
			g.neon.ExchangeHalves(g.sum(i, v), g.sum(i+1, v))
		}
	}
}
