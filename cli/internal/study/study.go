// Package study implements "graphrun study". It compares strategies over many graphs, sizes and conditions.
//
// A [Study] is a file that lists models, strategies and conditions. [Study.tasks] returns a [Task] for each combination
// of a model, sizes, a condition and a number of threads. Tasks are independent. The [Result] of a task is a file. The
// name of the file is the digest of all inputs of the task. Therefore a study can be interrupted, continued, and
// divided among machines. A [Document] has tables, which are computed from the results.
package study

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
)

// Version is the version of study files.
const Version = 1

// Study is the content of a study file.
type Study struct {
	Version    int         `json:"version" doc:"The version of the file: 1."`
	Name       string      `json:"name" doc:"The name of the study."`
	Models     []Model     `json:"models" doc:"The models."`
	Strategies []string    `json:"strategies,omitempty" doc:"The strategies; all strategies if left out."`
	Conditions []Condition `json:"conditions" doc:"The conditions under which every model is planned."`
	Runs       int         `json:"runs,omitzero" doc:"The number of measured runs of each plan; 20 if left out or 0."`
	Seed       int         `json:"seed,omitzero" doc:"The seed of generated inputs and of the order of measured runs."`
	// SolverTimeLimit is a Go duration. Empty means layout.SolveLimit.
	SolverTimeLimit string `json:"solver_time_limit,omitzero" doc:"The time limit of the solver for each plan and each bound, such as 30s; 10s if left out."`

	solverLimit time.Duration // SolverTimeLimit as a duration; set by check
}

// Model is a model file, and the sizes for which the model is planned.
type Model struct {
	Name string           `json:"name,omitzero" doc:"The name of the model in tables; if left out, the base name of the file, or of its folder for the file model.onnx."`
	File string           `json:"file" doc:"The path of the graph file or model, relative to the folder of the models."`
	Dims []map[string]int `json:"dims,omitempty" doc:"A list of maps from symbols to sizes. The model is planned for each map. If left out, it is planned once, with the default sizes (hints) of the symbols."`
}

// Condition is a set of options with which all models are planned.
type Condition struct {
	Name    string `json:"name" doc:"The name of the condition in tables."`
	Profile string `json:"profile,omitzero" doc:"The cost profile: a shipped profile (avx512, avx2, portable) or the path of a file, relative to the study; if left out, the shipped profile for the machine."`
	// check replaces 0 by 1.
	CopyPriceFactor float64 `json:"copies,omitzero" doc:"A factor on the prices of copies and of transposed reading; 1 if left out or 0."`
	// EqualLayoutPrices adds the pass equalize.
	EqualLayoutPrices bool  `json:"equal_layouts,omitzero" doc:"Whether ops on images have the same price in row-major and channels-last layout: the lower of the two prices."`
	NoFusion          bool  `json:"no_fusion,omitzero" doc:"Whether nodes are not fused."`
	Exact             bool  `json:"exact,omitzero" doc:"Whether implementations are excluded that round differently from the definition."`
	Threads           []int `json:"threads,omitempty" doc:"The plans are measured with each of these numbers of workers; if left out, plans are not measured."`
	// Tune is a Go duration.
	Tune string `json:"tune,omitzero" doc:"The budget of tune for each graph and number of threads, such as 30s. Prices are then measured, and results have two more plans: tuned, which tune chose, and predicted, the plan without measured prices. It needs threads."`

	profile *pricing.Profile // the cost profile, with CopyPriceFactor applied; set by check
	tune    time.Duration    // Tune as a duration; set by check
}

// maxStudyBytes is the maximum size of a study file.
const maxStudyBytes = 16 << 20

// read reads a study file and the cost profiles of its conditions.
func read(ext *command.Extensions, path string) (*Study, error) {
	f, info, err := files.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if strings.EqualFold(filepath.Ext(path), ".onnx") {
		return nil, fmt.Errorf("%s: the file is a model, but study needs a study file, such as STUDY.json (graphrun study "+
			"--help)", path)
	}
	if info.Size() > maxStudyBytes {
		return nil, fmt.Errorf("%s: the file is too large: a study file has at most %s", path, format.Bytes(maxStudyBytes))
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	s := new(Study)
	if err := files.DecodeJSON(text, s); err != nil {
		return nil, fmt.Errorf("%s: the file is not a study file: %w", path, err)
	}
	if err := s.check(ext, filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// check validates the study, sets defaults and reads the cost profiles. folder is the folder of the study file.
func (s *Study) check(ext *command.Extensions, folder string) error {
	switch {
	case s.Version != Version:
		return fmt.Errorf("version %d: want %d", s.Version, Version)
	case len(s.Models) == 0:
		return errors.New("models: the list is empty")
	case len(s.Conditions) == 0:
		return errors.New("conditions: the list is empty")
	case s.Runs < 0:
		return fmt.Errorf("runs: %d: want a positive number (0 means the default, 20)", s.Runs)
	}
	if s.Runs == 0 {
		s.Runs = 20
	}
	if err := s.checkStrategies(ext); err != nil {
		return err
	}
	s.solverLimit = layout.SolveLimit
	if s.SolverTimeLimit != "" {
		var err error
		if s.solverLimit, err = time.ParseDuration(s.SolverTimeLimit); err != nil || s.solverLimit < 0 {
			return fmt.Errorf("solver_time_limit: %q: want a time such as 10s", s.SolverTimeLimit)
		}
	}
	if err := s.checkModels(); err != nil {
		return err
	}
	return s.checkConditions(folder)
}

// checkStrategies validates the strategies. By default, the study has all strategies.
func (s *Study) checkStrategies(ext *command.Extensions) error {
	if s.Strategies == nil {
		s.Strategies = ext.StrategyNames()
	}
	for i, name := range s.Strategies {
		if err := ext.CheckStrategy(name); err != nil {
			return fmt.Errorf("strategies[%d]: %w", i, err)
		}
		if slices.Contains(s.Strategies[:i], name) {
			return fmt.Errorf("strategies[%d]: %q is listed twice", i, name)
		}
	}
	return nil
}

// checkModels validates the models and sets their default names and sizes.
func (s *Study) checkModels() error {
	names := map[string]bool{}
	for i := range s.Models {
		model := &s.Models[i]
		if !filepath.IsLocal(filepath.FromSlash(model.File)) {
			return fmt.Errorf("models[%d]: file: %q: want a path within the folder of the models", i, model.File)
		}
		if model.Name == "" {
			model.Name = nameOf(model.File)
		}
		if names[model.Name] {
			return fmt.Errorf("models[%d]: two models are named %q", i, model.Name)
		}
		names[model.Name] = true
		for k, dims := range model.Dims {
			for name, n := range dims {
				if n < 0 {
					return fmt.Errorf("models[%d]: dims[%d]: %s: %d: want at least 0", i, k, name, n)
				}
			}
		}
		if len(model.Dims) == 0 {
			model.Dims = []map[string]int{{}}
		}
	}
	return nil
}

// nameOf returns the base name of a model file without extension. For the file model.onnx it returns the name of the
// folder.
func nameOf(path string) string {
	label := command.FileLabel(path)
	if folder, found := strings.CutSuffix(label, "/model.onnx"); found {
		return folder
	}
	return strings.TrimSuffix(label, filepath.Ext(label))
}

// checkConditions validates the conditions and reads their cost profiles. folder is the folder of the study file.
func (s *Study) checkConditions(folder string) error {
	names := map[string]bool{}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if err := c.check(folder); err != nil {
			return fmt.Errorf("conditions[%d]: %w", i, err)
		}
		if names[c.Name] {
			return fmt.Errorf("conditions[%d]: two conditions are named %q", i, c.Name)
		}
		names[c.Name] = true
	}
	return nil
}

// check validates a condition and reads its cost profile. folder is the folder of the study file.
func (c *Condition) check(folder string) error {
	switch {
	case c.Name == "":
		return errors.New("name: the name is empty")
	case !(c.CopyPriceFactor >= 0) || math.IsInf(c.CopyPriceFactor, 0):
		return fmt.Errorf("copies: %g: want a positive number (0 means the default, 1)", c.CopyPriceFactor)
	case c.EqualLayoutPrices && len(c.Threads) > 0:
		return errors.New("threads: plans with equal_layouts have no kernels and cannot be measured")
	}
	for i, n := range c.Threads {
		if n < 1 || slices.Contains(c.Threads[:i], n) {
			return fmt.Errorf("threads[%d]: %d: want positive numbers, each once", i, n)
		}
	}
	if c.Tune != "" {
		var err error
		if c.tune, err = time.ParseDuration(c.Tune); err != nil || c.tune <= 0 {
			return fmt.Errorf("tune: %q: want a time such as 30s", c.Tune)
		}
		if len(c.Threads) == 0 {
			return errors.New("tune: the condition measures nothing: add threads")
		}
	}
	if c.CopyPriceFactor == 0 {
		c.CopyPriceFactor = 1
	}
	profile, err := readProfile(c.Profile, folder)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	c.profile = profile.ScaleCopies(c.CopyPriceFactor)
	return c.profile.Check()
}

// readProfile returns the cost profile for the value of [Condition.Profile].
func readProfile(name, folder string) (*pricing.Profile, error) {
	shipped := pricing.ShippedProfiles()
	switch {
	case name == "":
		return pricing.DefaultProfile(), nil
	case slices.Contains(shipped, name):
		return pricing.ShippedProfile(name), nil
	case !filepath.IsLocal(filepath.FromSlash(name)):
		return nil, fmt.Errorf("%q: want one of %s, or a path within the folder of the study", name,
			strings.Join(shipped, ", "))
	}
	path := filepath.Join(folder, filepath.FromSlash(name))
	profile, err := pricing.ReadProfile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%q: there is no such file: want %s, or a file in the folder of the study", name,
			strings.Join(shipped, ", "))
	case err != nil:
		return nil, files.WithPath(path, err)
	}
	return profile, nil
}
