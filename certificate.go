package graphrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// CertificateVersion is the version of the files of certificates.
const CertificateVersion = 1

// Certificate is everything that it takes to be certain what a plan costs, and that none costs less than a bound,
// without trust in who made it: [Verify] rebuilds the problem from the graph and checks the proof.
type Certificate struct {
	Version int              `json:"version" doc:"The version of the file: 1."`
	Graph   CertifiedGraph   `json:"graph" doc:"The graph that was planned."`
	Options CertifiedOptions `json:"options" doc:"What was asked for: all that the problem depends on."`
	// OptionsDigest and ProfileDigest are of the JSON of these.
	OptionsDigest string          `json:"options_digest" doc:"The sha256 of the options' canonical JSON (RFC 8785), in hexadecimal digits."`
	Profile       *layout.Profile `json:"profile" doc:"The prices of the machine."`
	ProfileDigest string          `json:"profile_digest" doc:"The sha256 of the profile's canonical JSON (RFC 8785), in hexadecimal digits, as plan prints it."`
	Problem       *wcsp.Problem   `json:"problem" doc:"The problem of layouts: what can be chosen, and what it costs."`
	Solution      *wcsp.Solution  `json:"solution" doc:"What was chosen, a bound, and why no plan costs less than that."`
}

// CertifiedGraph tells which graph a certificate is for.
type CertifiedGraph struct {
	Name   string `json:"name" doc:"The name of the graph; it may be empty."`
	Digest string `json:"digest" doc:"The sha256 of structure, attributes, layouts and the data of constants."`
}

// CertifiedOptions are the options that the problem depends on.
type CertifiedOptions struct {
	Strategy    string         `json:"strategy" doc:"The strategy that made the plan."`
	Sizes       map[string]int `json:"sizes" doc:"The sizes of all symbols."`
	Pins        []CertifiedPin `json:"pins" doc:"The pins of the graph, those of the file among them."`
	NoFusion    bool           `json:"no_fusion" doc:"Whether each node is a step."`
	Exact       bool           `json:"exact" doc:"Whether implementations that compute by another formula than the op's definition are left out."`
	MemoryLimit int            `json:"memory_limit" doc:"The bytes that a run may need; 0: what there is; below: no limit."`
}

// CertifiedPin is a pin, as the command line has it.
type CertifiedPin struct {
	Name string `json:"name" doc:"The value, the node or the output."`
	Pin  string `json:"pin" doc:"What is demanded: a memory format, an order or an implementation."`
}

// Certificate returns a certificate of the program's plan, for the sizes that Compile saw. There is one where the
// strategy states the problem exactly, as Optimal and [layout.Given] do, the graph is planned as a whole, and the
// passes are those of package passes.
func (p *Program) Certificate() (*Certificate, error) {
	m, err := p.stated()
	if err != nil {
		return nil, err
	}
	switch found := p.first.plan.Solution; {
	case found == nil:
		return nil, fmt.Errorf("strategy %s does not state the problem of layouts: there is nothing to certify; "+
			"strategy optimal does", p.options.Strategy.Name())
	case p.ownPasses:
		return nil, errors.New("the passes are not those that are always there: nobody else could plan the graph again")
	case p.options.KeepGoing:
		return nil, errors.New("what keeps going past mistakes has no certificate")
	}
	found := p.first.plan.Solution
	cost, err := m.WCSP.Cost(found.Labels)
	if err != nil {
		return nil, fmt.Errorf("the problem is not the one that was solved: %w", err)
	}
	if cost != found.Cost {
		return nil, fmt.Errorf("the problem is not the one that was solved: the labels cost %d picoseconds, not %d",
			cost, found.Cost)
	}
	proved, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{Proof: true, TimeLimit: m.Problem.Search()})
	if err != nil {
		return nil, err
	}
	g := p.first.graph
	c := &Certificate{Version: CertificateVersion, Graph: CertifiedGraph{Name: g.Name}, Profile: p.options.Costs,
		Options: CertifiedOptions{Strategy: p.options.Strategy.Name(), Sizes: g.Bound(), Pins: pinsOf(g),
			NoFusion: p.options.NoFusion, Exact: p.options.Exact, MemoryLimit: p.options.MemoryLimit},
		Problem: m.WCSP, Solution: &wcsp.Solution{Version: wcsp.Version, Labels: slices.Clone(found.Labels), Cost: cost,
			Bound: proved.Bound, Proof: proved.Proof}}
	if c.Options.Sizes == nil {
		c.Options.Sizes = map[string]int{}
	}
	if c.Profile == nil {
		c.Profile = layout.DefaultProfile()
	}
	if c.Graph.Digest, err = digestOf(context.Background(), p.first.whole()); err != nil {
		return nil, err
	}
	c.OptionsDigest, c.ProfileDigest = machine.DigestOfJSON(c.Options), machine.DigestOfJSON(c.Profile)
	return c, nil
}

// Write writes the certificate as JSON.
func (c *Certificate) Write(w io.Writer) error {
	if c == nil || w == nil {
		return errors.New("there is no certificate, or no writer")
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// ReadCertificate reads what [Certificate.Write] writes. Unknown keys, missing parts and other versions are errors;
// whether it holds is for [Verify] to say.
func ReadCertificate(r io.Reader) (*Certificate, error) {
	if r == nil {
		return nil, errors.New("there is no reader")
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	c := new(Certificate)
	if err := files.JSON(text, c); err != nil {
		return nil, fmt.Errorf("this is no certificate: %w", err)
	}
	return c, c.whole()
}

// whole checks that all parts are there.
func (c *Certificate) whole() error {
	switch {
	case c.Version != CertificateVersion:
		return fmt.Errorf("this is no certificate of version %d: its version is %d", CertificateVersion, c.Version)
	case c.Profile == nil || c.Problem == nil || c.Solution == nil:
		return errors.New("this is no certificate: the profile, the problem or the solution is missing")
	case c.Solution.Proof == nil:
		return errors.New("this is no certificate: the solution has no proof")
	}
	if err := c.Profile.Check(); err != nil {
		return fmt.Errorf("this is no certificate: its profile: %w", err)
	}
	if err := c.Problem.Validate(); err != nil {
		return fmt.Errorf("this is no certificate: %w", err)
	}
	return nil
}
