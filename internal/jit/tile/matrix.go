package tile

// Products of byte matrices. In the k-loop, a register has the sums of two rows by two lanes: those of row i and of row
// i+1, for an even i. The registers of vector v of these rows have its lower and its upper two lanes. Outside the
// k-loop, each has the four lanes of one row, as in other tiles.

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

// exchangeHalves converts the accumulators between rows and the form of the k-loop, in either direction.
func (g *gen) exchangeHalves() {
	for i := 0; i < g.s.Rows; i += 2 {
		for v := range g.s.Vectors {
			g.neon.ExchangeHalves(g.sum(i, v), g.sum(i+1, v))
		}
	}
}
