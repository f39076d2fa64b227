package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/graphrun/graphrun/tensor"
)

// Defaults of [Options]. warmUps is the number of runs before the measured rounds.
const (
	warmUps     = 2
	defaultRuns = 20
	defaultTurn = 3
	untilRuns   = 1000
	untilTime   = time.Minute
)

// session measures contenders in rounds.
type session struct {
	Options
	all     []*contender
	several bool // there are several candidates, which may have one plan
	in      map[string]*tensor.Tensor
	random  *rand.Rand
	start   time.Time
	runs    int // measured runs of each contender
	next    int // runs after which Until is checked
	load    *loadMeter
}

// measure measures until the last round or until ctx ends.
func (s *session) measure(ctx context.Context) (interrupted bool, err error) {
	s.start = time.Now()
	each := s.perTurn()
	total := 0
	if s.Until == 0 {
		total = 1 + (s.Runs+each-1)/each
	}
	for i := 0; i == 0 || !s.enough(); i++ {
		s.Progress(i, total)
		s.load.sample()
		first, runs := warmUps, warmUps
		if i > 0 {
			first = s.Turn - each
			runs = first + min(each, s.limit()-s.runs)
			s.runs += runs - first
		}
		for _, k := range s.random.Perm(len(s.all)) {
			x := s.all[k]
			switch err := x.turn(ctx, s.in, first, runs); {
			case ctx.Err() != nil:
				return true, nil
			case err != nil && s.several:
				return false, fmt.Errorf("%w (strategy %s)", err, x.name)
			case err != nil:
				return false, err
			}
		}
	}
	return false, nil
}

// perTurn returns the number of measured runs in a turn.
func (s *session) perTurn() int { return max(1, s.Turn-1) }

// limit returns the greatest number of measured runs.
func (s *session) limit() int {
	if s.Runs > 0 {
		return s.Runs
	}
	return untilRuns
}

// enough reports whether the measurement is complete.
func (s *session) enough() bool {
	if s.runs >= s.limit() {
		return true
	}
	if s.Until == 0 {
		return false
	}
	if s.Runs <= 0 && time.Since(s.start) > untilTime {
		return true
	}
	if s.runs < max(defaultRuns, s.next) {
		return false
	}
	s.next = s.runs + s.runs/10 // a check sorts all times
	return len(s.unreached()) == 0
}

// unreached returns the names of the contenders whose confidence interval is wider than Until.
func (s *session) unreached() []string {
	var names []string
	for _, x := range s.all {
		spread := SpreadOf(x.times)
		if reach := spread.halfWidth(); s.Until > 0 && (reach == nil || *reach > s.Until) {
			names = append(names, x.name)
		}
	}
	return names
}

// turn runs the program several times in succession. It measures the runs from index first on.
func (x *contender) turn(ctx context.Context, in map[string]*tensor.Tensor, first, runs int) error {
	for i := range runs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		out, took, err := x.run(ctx, in)
		if err != nil {
			return err
		}
		x.out = out
		if i >= first {
			x.times = append(x.times, float64(took))
		}
	}
	if runs > first {
		x.turns = append(x.turns, *SpreadOf(x.times[len(x.times)-(runs-first):]).Median)
	}
	return nil
}
