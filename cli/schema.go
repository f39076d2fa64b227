package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/sorted"
)

// documentNames lists the commands that print documents.
func documentNames() []string { return sorted.Keys(documents) }

// schemaNames lists the documents that have a schema.
func schemaNames() []string {
	return append(documentNames(), sorted.Keys(flagDocuments)...)
}

// schemaCommand returns the command schema.
func schemaCommand(ext *command.Extensions) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [COMMAND|FILE]",
		Short: "Print a JSON Schema of graph files, or of the output of a command",
		Long: `Prints a JSON Schema (2020-12) of graph files, which is made from the same table of ops that validates
graphs. With the schema, editors complete ops and attributes, show their documentation, and mark
mistakes. graphrun infer finds further mistakes, such as unknown names of values, cycles and wrong
shapes.

With the name of a command, prints a schema of the output of that command with --json. The commands are
` + strings.Join(documentNames(), ", ") + `.
Documents have no other keys than those of the schema, and have a version. With the name of a flag, prints
a schema of the document that the flag writes, prints or reads. The flags are
` + strings.Join(sorted.Keys(flagDocuments), ", ") + `.`,
		Example: `  graphrun schema > graph.schema.json
  check-jsonschema --schemafile graph.schema.json model.json
  graphrun schema plan | jq '."$defs".step.properties'`,
		Args:      atMostOneDocument,
		ValidArgs: schemaNames(),
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) (err error) {
			var text []byte
			if len(args) == 0 {
				text, err = graphfile.Schema(ext.Ops())
			} else {
				text, err = json.Marshal(commandSchema(args[0]), json.Deterministic(true), jsontext.WithIndent(" "))
			}
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(append(text, '\n'))
			return err
		}),
	}
}

// atMostOneDocument accepts no argument or the name of a document.
func atMostOneDocument(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return command.UsageError(cmd, "schema wants one command at most, got %d", len(args))
	}
	if len(args) == 1 && !slices.Contains(schemaNames(), args[0]) {
		return exit.UsageErrorf("schema: %s prints no document: %s", args[0], format.WantOneOf(args[0], schemaNames()))
	}
	return nil
}

// commandSchema returns the JSON Schema of the document of a command or of a flag.
func commandSchema(name string) map[string]any {
	if f, ok := flagDocuments[name]; ok {
		return document.Schema(f.documentType, fmt.Sprintf("The documents of graphrun %s --%s, version %d", f.command, name,
			document.Version), allowedWords)
	}
	return document.Schema(documents[name], fmt.Sprintf("The output of graphrun %s --json, version %d", name,
		document.Version), allowedWords)
}
