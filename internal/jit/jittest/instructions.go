//go:build linux || darwin

package jittest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
)

// reduceRounds is the maximum number of reduction steps of a remainder. A quotient of float64 has up to 2,098 bits, and
// a step removes at least 51 bits.
const reduceRounds = 42

// syntax describes the loops in the listings of an architecture.
type syntax struct {
	data     string         // the text with which the constants begin
	jump     *regexp.Regexp // a jump and its label
	advances [2]string      // before and after the step of a loop over elements
	index    string         // the end of a line that changes the number of elements
}

var (
	counted     = regexp.MustCompile(`^\tMOVL\t\$(\d+), AX$`)
	piece       = regexp.MustCompile(`^\ttbz\tx25, #(\d+), (L\d+)$`)
	amd64Syntax = syntax{data: "DATA ", jump: regexp.MustCompile(`^\tJ\w+\t(L\d+)$`),
		advances: [2]string{"\tADDQ\t$", ", CX"}, index: "CX\n"}
	arm64Syntax = syntax{data: "constants:", jump: regexp.MustCompile(`^\t(?:b|cb|tb).*\b(L\d+)$`),
		advances: [2]string{"\tsubs\tx25, x25, #", ""}, index: "x25"}
)

// rowPiece is arm64 code that computes a number of elements, a power of two, at the end of a row. It is executed if
// this bit is set in the number of remaining elements.
type rowPiece struct{ begin, cost, elements int }

// elementLoop is a loop over the elements of a row: the numbers of instructions and of elements of an iteration.
type elementLoop struct{ cost, elements int }

// InstructionCount has the numbers of instructions of the parts of a listed loop.
type InstructionCount struct {
	*syntax
	lines  []string
	labels map[string]int // by label: its line
	cost   []int          // by line: instructions that the line executes in an iteration of the surrounding loop
	loops  []elementLoop
	pieces map[string]*rowPiece // by the label that follows the piece
	row    int                  // instructions of a row outside the loops over elements and the pieces
}

// CountInstructions counts the instructions of a listed loop. It analyzes the text. On amd64, a loop over elements adds
// their number to CX in each iteration. On arm64, it ends in the subtraction of their number from X25. The loop around
// these loops is the loop over rows. A loop inside a loop over elements either copies elements, whose number is in AX,
// or reduces remainders.
func CountInstructions(cpu machine.Features, listing string) (*InstructionCount, error) {
	style := &amd64Syntax
	if cpu.Has(machine.NEON) {
		style = &arm64Syntax
	}
	code, _, _ := strings.Cut(listing, style.data)
	counts := &InstructionCount{syntax: style, lines: strings.Split(strings.TrimSuffix(code, "\n"), "\n"),
		labels: map[string]int{}, pieces: map[string]*rowPiece{}}
	counts.cost = make([]int, len(counts.lines))
	for k := range counts.lines {
		counts.count(k)
	}
	if len(counts.loops) == 0 {
		return nil, fmt.Errorf("the listing has no loop over elements:\n%s", code)
	}
	counts.row = counts.takeCost(0, len(counts.lines))
	sorted.Func(counts.loops, func(a, b elementLoop) int { return b.elements - a.elements })
	return counts, nil
}

// count adds line k: it records labels, and moves the instructions of a loop that ends in line k to the cost of the
// loop.
func (c *InstructionCount) count(k int) {
	line := c.lines[k]
	if label, ok := strings.CutSuffix(line, ":"); ok {
		c.labels[label] = k
		if rowPart, ok := c.pieces[label]; ok {
			rowPart.cost = c.takeCost(rowPart.begin, k)
		}
		return
	}
	c.cost[k] = 1
	if !strings.Contains(line, "\tL") && !strings.Contains(line, " L") { // no label
		return
	}
	if match := piece.FindStringSubmatch(line); match != nil {
		bit, _ := strconv.Atoi(match[1])
		c.pieces[match[2]] = &rowPiece{begin: k + 1, elements: 1 << bit}
	}
	match := c.jump.FindStringSubmatch(line)
	if match == nil {
		return
	}
	begin, back := c.labels[match[1]]
	if !back {
		return
	}
	step := 0
	for at := begin; at <= k; at++ {
		if n, ok := c.step(c.lines[at]); ok && c.cost[at] > 0 && (c.syntax == &amd64Syntax || at == k-1) {
			step = n
		}
	}
	switch {
	case step > 0:
		c.loops = append(c.loops, elementLoop{c.takeCost(begin, k+1), step})
	case len(c.loops) == 0 || !strings.Contains(strings.Join(c.lines[begin:k], "\n"), c.index):
		c.cost[k] = c.takeCost(begin, k+1) * rounds(c.lines[:begin], c.lines[k-1])
	}
}

// step returns the step of a loop over elements, if the line advances such a loop.
func (s *syntax) step(line string) (elements int, ok bool) {
	line, before := strings.CutPrefix(line, s.advances[0])
	line, after := strings.CutSuffix(line, s.advances[1])
	if !before || !after {
		return 0, false
	}
	elements, err := strconv.Atoi(line)
	return elements, err == nil
}

// takeCost returns the cost of lines, and removes it from them.
func (c *InstructionCount) takeCost(begin, end int) (sum int) {
	for _, n := range c.cost[begin:end] {
		sum += n
	}
	clear(c.cost[begin:end])
	return sum
}

// Max returns the maximum number of instructions that a call executes for rows of n elements.
func (c *InstructionCount) Max(n, rows int) int {
	sum := c.row
	for k, loop := range c.loops {
		times := n / loop.elements
		if n -= times * loop.elements; k == len(c.loops)-1 && n > 0 && c.syntax == &amd64Syntax {
			times++ // a masked iteration
		}
		sum += times * loop.cost
	}
	for _, part := range c.pieces {
		if n&part.elements != 0 {
			sum += part.cost
		}
	}
	return sum * rows
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
