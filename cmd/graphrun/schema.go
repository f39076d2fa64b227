package main

import (
	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the graph file",
		Long: `Prints a JSON Schema (2020-12) of the graph file, made from the same table of ops that graphs
are checked against, so that editors complete ops and attributes, show their documentation and
mark mistakes. What takes more than a look at the file (names of values, cycles, shapes) is left
to graphrun infer.`,
		Example: `  graphrun schema > graph.schema.json
  check-jsonschema --schemafile graph.schema.json model.json`,
		Args: noArguments,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			text, err := graph.JSONSchema(kernels.All())
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(append(text, '\n'))
			return err
		}),
	}
}
