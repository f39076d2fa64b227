package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/graphrun/graphrun/tensor"
)

const (
	warmUpRuns       = 2           // runs before the measured rounds
	defaultRuns      = 20          // default of Options.Runs
	defaultTurn      = 3           // default of Options.Turn
	maxRunsWithUntil = 1000        // maximum number of runs with Options.Until
	maxTimeWithUntil = time.Minute // maximum time with Options.Until
)

// session measures contenders in rounds. In each round, every contender has one turn: several runs in succession. The
// first round only warms up. With Options.Until, the measurement ends when the half-width of each contender's
// confidence interval is at most this fraction of its median.
type session struct {
	Options
	contenders           []*contender // the contenders to measure
	hasSeveralCandidates bool         // whether there are several candidates, even if all have the same plan
	inputs               map[string]*tensor.Tensor
	random               *rand.Rand
	start                time.Time
	runs                 int // number of measured runs of each contender so far
	nextCheck            int // number of runs at which Until is checked again
	load                 *loadMeter
}

// measure measures until the last round or until ctx ends.
func (s *session) measure(ctx context.Context) (interrupted bool, err error) {
	s.start = time.Now()
	runsPerTurn := s.runsPerTurn()
	totalRounds := 0 // number of rounds; 0 if it is unknown
	if s.Until == 0 {
		totalRounds = 1 + (s.Runs+runsPerTurn-1)/runsPerTurn
	}
	for i := 0; i == 0 || !s.isComplete(); i++ {
		s.Progress(i, totalRounds)
		s.load.sample()
		unmeasuredRuns, runs := warmUpRuns, warmUpRuns // the first round only warms up
		if i > 0 {
			measured := min(runsPerTurn, s.maxRuns()-s.runs) // the last turn has only the missing runs
			unmeasuredRuns = s.Turn - runsPerTurn            // the first run of a turn, unless it is the only one
			runs = unmeasuredRuns + measured
			s.runs += measured
		}
		for _, k := range s.random.Perm(len(s.contenders)) {
			contender := s.contenders[k]
			switch err := contender.runTurn(ctx, s.inputs, unmeasuredRuns, runs); {
			case ctx.Err() != nil:
				return true, nil
			case err != nil && s.hasSeveralCandidates:
				return false, fmt.Errorf("%w (strategy %s)", err, contender.name)
			case err != nil:
				return false, err
			}
		}
	}
	return false, nil
}

// runsPerTurn returns the number of measured runs in a turn.
func (s *session) runsPerTurn() int { return max(1, s.Turn-1) }

// maxRuns returns the greatest number of measured runs.
func (s *session) maxRuns() int {
	if s.Runs > 0 {
		return s.Runs
	}
	return maxRunsWithUntil
}

// isComplete reports whether the measurement is complete. It also sets nextCheck.
func (s *session) isComplete() bool {
	if s.runs >= s.maxRuns() {
		return true
	}
	if s.Until == 0 {
		return false
	}
	if s.Runs <= 0 && time.Since(s.start) > maxTimeWithUntil {
		return true
	}
	if s.runs < max(defaultRuns, s.nextCheck) {
		return false
	}
	s.nextCheck = s.runs + s.runs/10 // checks are rare, because each check sorts all times
	return len(s.wideIntervals()) == 0
}

// wideIntervals returns the names of the contenders whose confidence interval is unknown or has a half-width of more
// than Until. It returns none if Until is 0.
func (s *session) wideIntervals() []string {
	var names []string
	for _, contender := range s.contenders {
		spread := SpreadOf(contender.times)
		if halfWidth := spread.halfWidth(); s.Until > 0 && (halfWidth == nil || *halfWidth > s.Until) {
			names = append(names, contender.name)
		}
	}
	return names
}

// runTurn runs the program `runs` times in succession. It does not measure the first unmeasuredRuns.
func (contender *contender) runTurn(ctx context.Context, in map[string]*tensor.Tensor, unmeasuredRuns, runs int) error {
	for i := range runs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		out, took, err := contender.run(ctx, in)
		if err != nil {
			return err
		}
		contender.out = out
		if i >= unmeasuredRuns {
			contender.times = append(contender.times, float64(took))
		}
	}
	if measured := runs - unmeasuredRuns; measured > 0 {
		timesOfTurn := contender.times[len(contender.times)-measured:]
		contender.turnMedians = append(contender.turnMedians, *SpreadOf(timesOfTurn).Median)
	}
	return nil
}
