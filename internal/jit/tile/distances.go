package tile

import (
	"fmt"
	"math"
)

// maxDistance bounds a distance in bytes: the sum of two distances, and of a tile's vectors, fits a displacement.
const maxDistance = 1<<30 - 1<<16

// checkDistances refuses distances, and sums of them, that do not fit the displacements and immediates of the code,
// which have 32 bits.
func (s *Spec) checkDistances() error {
	for _, d := range [...]struct {
		what string
		list []int
	}{{"rows of the broadcast operand", s.In}, {"rows of the result", s.Out},
		{"tiles", []int{told(s.Tiles.In), told(s.Tiles.Vec), told(s.Tiles.Out)}},
		{"lines asked for", []int{s.Near, s.Ahead * lineBytes}},
		{"terms kept", []int{s.unroll() * s.Keep}}} {
		for _, n := range d.list {
			if !within(n) {
				return fmt.Errorf("tile: %s: a distance of %d bytes does not fit the code", d.what, n)
			}
		}
	}
	for i, l := range s.Loops {
		if !within(l.In) || !within(l.Vec) || l.Turns > math.MaxInt32 || l.Block > math.MaxInt32 {
			return fmt.Errorf("tile: loop %d does not fit the code: %+v", i, l)
		}
	}
	atIn, atVec := 0, 0 // the ends of the previous run's terms
	for i, r := range s.Runs {
		terms := r.Terms
		if terms == Dynamic {
			terms = s.unroll()
		}
		if !within(r.In) || !within(r.Vec) || !reaches(r.InStep, terms) || !reaches(r.VecStep, terms) ||
			!fits(r.In-atIn) || !fits(r.Vec-atVec) {
			return fmt.Errorf("tile: run %d does not fit the code: %+v", i, r)
		}
		atIn, atVec = r.In+terms*r.InStep, r.Vec+terms*r.VecStep
	}
	return nil
}

func within(distance int) bool {
	return distance <= maxDistance && distance >= -maxDistance
}

// told returns a distance, 0 for a dynamic one.
func told(distance int) int {
	if distance == Dynamic {
		return 0
	}
	return distance
}

func fits(distance int) bool { return distance == int(int32(distance)) }

// reaches reports whether the last of some terms, a step apart, is within the bound.
func reaches(step, terms int) bool {
	return terms <= math.MaxInt32 && within(told(step)) && within(told(step)*terms)
}

// unroll returns the number of terms in an iteration of the code.
func (s *Spec) unroll() int {
	if s.Unroll > 0 {
		return s.Unroll
	}
	return FewTerms
}
