package tile

// Products of byte matrices. In the k-loop, an accumulator register has 2x2 sums: two lanes of rows i and i+1, for an
// even i. Two registers together have the four lanes of vector v: one has the lower two, the other the upper two.
// Outside the k-loop, each register has the four lanes of one row, as in other tiles.

// matrixTerm emits the products of a term.
func (g *gen) matrixTerm(inOffset int) {
	for i := 0; i < g.spec.Rows; i += 2 {
		pair := g.nextElement()
		if i+1 < g.spec.Rows {
			g.neon.LoadPair(g.rowAddr(i, inOffset), g.rowAddr(i+1, inOffset), pair)
		} else {
			g.Elements(g.rowAddr(i, inOffset), 2, pair)
		}
		for v := range g.spec.Vectors {
			for half := range 2 {
				g.neon.MatrixProduct(pair, g.vectorReg(2*v+half), g.sumReg(i+half, v), g.spec.SignedIn)
			}
		}
	}
}

// exchangeHalves converts the accumulators from one row per register to 2x2 sums, or back.
func (g *gen) exchangeHalves() {
	for i := 0; i < g.spec.Rows; i += 2 {
		for v := range g.spec.Vectors {
			g.neon.ExchangeHalves(g.sumReg(i, v), g.sumReg(i+1, v))
		}
	}
}
