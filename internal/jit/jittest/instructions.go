//go:build linux || darwin

package jittest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/machine"
)

// reduceRounds is the maximum number of reduction steps of a remainder. A quotient of float64 has up to 2,098 bits, and
// a step removes at least 51 bits.
const reduceRounds = 42

// syntax describes the loops in the listings of an architecture.
type syntax struct {
	data     string         // the text with which the constants begin
	jump     *regexp.Regexp // a jump and its label
	advances *regexp.Regexp // the step of a loop over elements
	index    string         // the end of a line that changes the number of elements
}

var (
	labelled    = regexp.MustCompile(`^(L\d+):$`)
	counted     = regexp.MustCompile(`^\tMOVL\t\$(\d+), AX$`)
	piece       = regexp.MustCompile(`^\ttbz\tx25, #(\d+), (L\d+)$`)
	amd64Syntax = syntax{"DATA ", regexp.MustCompile(`^\tJ\w+\t(L\d+)$`), regexp.MustCompile(`^\tADDQ\t\$(\d+), CX$`),
		"CX\n"}
	arm64Syntax = syntax{"constants:", regexp.MustCompile(`^\t(?:b|cb|tb).*\b(L\d+)$`),
		regexp.MustCompile(`^\tsubs\tx25, x25, #(\d+)$`), "x25"}
)

// rowPiece is arm64 code that computes a number of elements, a power of two, at the end of a row. It is executed if
// this bit is set in the number of remaining elements.
type rowPiece struct{ begin, cost, elements int }

// elementLoop is a loop over the elements of a row: the numbers of instructions and of elements of an iteration.
type elementLoop struct{ cost, elements int }

// MaxInstructions returns the maximum number of instructions that a call of the listed loop executes for rows of n0
// elements. It analyzes the text. On amd64, a loop over elements adds their number to CX in each iteration. On arm64,
// it ends in the subtraction of their number from X25. The loop around these loops is the loop over rows. A loop inside
// a loop over elements either copies elements, whose number is in AX, or reduces remainders.
func MaxInstructions(cpu machine.Features, listing string, n0, rows int) (int, error) {
	s := &amd64Syntax
	if cpu.Has(machine.NEON) {
		s = &arm64Syntax
	}
	code, _, _ := strings.Cut(listing, s.data)
	c := instructionCounter{syntax: s, lines: strings.Split(strings.TrimSuffix(code, "\n"), "\n"),
		labels: map[string]int{}, pieces: map[string]*rowPiece{}}
	c.cost = make([]int, len(c.lines))
	for k := range c.lines {
		c.count(k)
	}
	if len(c.loops) == 0 {
		return 0, fmt.Errorf("no loop over elements in\n%s", code)
	}
	return c.row(n0) * rows, nil
}

// instructionCounter counts the instructions of a listing.
type instructionCounter struct {
	*syntax
	lines  []string
	labels map[string]int // by label: its line
	cost   []int          // by line: instructions that the line executes in an iteration of the surrounding loop
	loops  []elementLoop
	pieces map[string]*rowPiece // by the label that follows the piece
}

// count counts the instructions up to line k.
func (c *instructionCounter) count(k int) {
	line := c.lines[k]
	if m := labelled.FindStringSubmatch(line); m != nil {
		c.labels[m[1]] = k
		if p, ok := c.pieces[m[1]]; ok {
			p.cost = c.takeCost(p.begin, k)
		}
		return
	}
	c.cost[k] = 1
	if m := piece.FindStringSubmatch(line); m != nil {
		bit, _ := strconv.Atoi(m[1])
		c.pieces[m[2]] = &rowPiece{begin: k + 1, elements: 1 << bit}
	}
	m := c.jump.FindStringSubmatch(line)
	if m == nil {
		return
	}
	begin, back := c.labels[m[1]]
	if !back {
		return
	}
	step := 0
	for at := begin; at <= k; at++ {
		a := c.advances.FindStringSubmatch(c.lines[at])
		if a != nil && c.cost[at] > 0 && (c.syntax == &amd64Syntax || at == k-1) {
			step, _ = strconv.Atoi(a[1])
		}
	}
	switch {
	case step > 0:
		c.loops = append(c.loops, elementLoop{c.takeCost(begin, k+1), step})
	case len(c.loops) == 0 || !strings.Contains(strings.Join(c.lines[begin:k], "\n"), c.index):
		c.cost[k] = c.takeCost(begin, k+1) * rounds(c.lines[:begin], c.lines[k-1])
	}
}

// takeCost returns the cost of lines, and removes it from them.
func (c *instructionCounter) takeCost(begin, end int) (sum int) {
	for _, n := range c.cost[begin:end] {
		sum += n
	}
	clear(c.cost[begin:end])
	return sum
}

// row returns the number of instructions for a row of n elements.
func (c *instructionCounter) row(n int) int {
	sum := c.takeCost(0, len(c.lines)) // outside the loops over elements
	slices.SortFunc(c.loops, func(a, b elementLoop) int { return b.elements - a.elements })
	for k, t := range c.loops {
		times := n / t.elements
		if n -= times * t.elements; k == len(c.loops)-1 && n > 0 && c.syntax == &amd64Syntax {
			times++ // a masked iteration
		}
		sum += times * t.cost
	}
	for _, p := range c.pieces {
		if n&p.elements != 0 {
			sum += p.cost
		}
	}
	return sum
}

// rounds returns the maximum number of iterations of a loop inside a loop over elements: the initial value of AX, twice
// this value if elements are copied in halves, or reduceRounds.
func rounds(before []string, last string) int {
	if last != "\tDECL\tAX" {
		return reduceRounds
	}
	n, times := 0, 1
	for k := len(before) - 1; n == 0; k-- {
		if m := counted.FindStringSubmatch(before[k]); m != nil {
			n, _ = strconv.Atoi(m[1])
		} else if before[k] == "\tADDQ\tAX, AX" {
			times = 2
		}
	}
	return n * times
}
