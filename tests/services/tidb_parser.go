// Reads statements of MySQL, and writes them as TiCDC sends them: restored by TiDB's own parser, one for each table.
//
//	{"text": "rename table a to b, c.d to a", "database": "shop"}
//	{"sent": [{"database": "shop", "table": "b", "query": "RENAME TABLE `shop`.`a` TO `shop`.`b`"}, …], "error": ""}
//
// A statement that TiDB cannot parse, or does not execute, has an error. One that TiCDC does not send has none in "sent".
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver"
)

const flags = format.DefaultRestoreFlags | format.RestoreStringEscapeBackslash | format.RestoreTiDBSpecialComment

type statement struct {
	Text     string `json:"text"`
	Database string `json:"database"`
}

type event struct {
	Database string `json:"database"`
	Table    string `json:"table"`
	Query    string `json:"query"`
}

type answer struct {
	Sent  []event `json:"sent"`
	Error string  `json:"error"`
}

// inDatabase gives every table without a database the session's.
type inDatabase struct {
	database ast.CIStr
	refused  *string
}

func (v inDatabase) Enter(node ast.Node) (ast.Node, bool) {
	if table, ok := node.(*ast.TableName); ok && table.Schema.L == "" {
		table.Schema = v.database
	}
	if column, ok := node.(*ast.ColumnDef); ok && hasUnknownDefault(column) {
		*v.refused = "TiDB has no default for this type"
	}
	return node, false
}

func (v inDatabase) Leave(node ast.Node) (ast.Node, bool) { return node, true }

// hasUnknownDefault is whether a text, a blob or a document has a default, in parentheses: the text loses these.
func hasUnknownDefault(column *ast.ColumnDef) bool {
	if column.Tp == nil { // ALTER COLUMN … SET DEFAULT
		return false
	}
	switch column.Tp.GetType() {
	case mysql.TypeTinyBlob, mysql.TypeBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob, mysql.TypeJSON:
		for _, option := range column.Options {
			if option.Tp == ast.ColumnOptionDefaultValue {
				return true
			}
		}
	}
	return false
}

func restored(node ast.Node) string {
	var text strings.Builder
	if err := node.Restore(format.NewRestoreCtx(flags, &text)); err != nil {
		panic(err)
	}
	return text.String()
}

func quoted(table *ast.TableName) string {
	quote := func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
	return quote(table.Schema.O) + "." + quote(table.Name.O)
}

func of(table *ast.TableName, query string) []event {
	return []event{{table.Schema.O, table.Name.O, query}}
}

// renames has one event for each table, with the name that it has after the whole statement.
func renames(pairs []*ast.TableToTable) []event {
	events := make([]event, len(pairs))
	for i, pair := range pairs {
		last := pair.NewTable
		for _, later := range pairs[i+1:] {
			if quoted(later.OldTable) == quoted(last) {
				last = later.NewTable
			}
		}
		query := "RENAME TABLE " + quoted(pair.OldTable) + " TO " + quoted(pair.NewTable)
		events[i] = event{last.Schema.O, last.Name.O, query}
	}
	return events
}

func alterations(node *ast.AlterTableStmt) ([]event, string) {
	for _, spec := range node.Specs {
		if spec.Tp != ast.AlterTableRenameTable {
			continue
		}
		if len(node.Specs) > 1 {
			return nil, "TiDB renames a table in a statement of its own"
		}
		if spec.NewTable.Schema.L == "" {
			spec.NewTable.Schema = node.Table.Schema
		}
		return of(spec.NewTable, restored(node)), ""
	}
	return of(node.Table, restored(node)), ""
}

func sent(node ast.StmtNode) ([]event, string) {
	switch node := node.(type) {
	case *ast.CreateDatabaseStmt:
		return []event{{node.Name.O, "", restored(node)}}, ""
	case *ast.DropDatabaseStmt:
		return []event{{node.Name.O, "", restored(node)}}, ""
	case *ast.AlterDatabaseStmt:
		return []event{{node.Name.O, "", restored(node)}}, ""
	case *ast.CreateTableStmt:
		if node.Select != nil {
			return nil, "TiDB has no CREATE TABLE … SELECT"
		}
		return of(node.Table, restored(node)), ""
	case *ast.DropTableStmt:
		var events []event
		word := "TABLE"
		if node.IsView {
			word = "VIEW"
		}
		for _, table := range node.Tables {
			events = append(events, of(table, "DROP "+word+" "+quoted(table))...)
		}
		return events, ""
	case *ast.TruncateTableStmt:
		return of(node.Table, restored(node)), ""
	case *ast.RenameTableStmt:
		return renames(node.TableToTables), ""
	case *ast.CreateIndexStmt:
		return of(node.Table, restored(node)), ""
	case *ast.DropIndexStmt:
		return of(node.Table, restored(node)), ""
	case *ast.CreateViewStmt:
		return of(node.ViewName, restored(node)), ""
	case *ast.AlterTableStmt:
		return alterations(node)
	}
	return nil, ""
}

func read(asked statement) answer {
	nodes, _, err := parser.New().Parse(asked.Text, "utf8mb4", "utf8mb4_bin")
	if err != nil {
		return answer{Error: err.Error()}
	}
	var result answer
	for _, node := range nodes {
		var refused string
		node.Accept(inDatabase{ast.NewCIStr(asked.Database), &refused})
		if refused != "" {
			return answer{Error: refused}
		}
		events, refused := sent(node)
		if refused != "" {
			return answer{Error: refused}
		}
		result.Sent = append(result.Sent, events...)
	}
	return result
}

func main() {
	input, output := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked statement
		if err := json.Unmarshal(line, &asked); err != nil {
			panic(err)
		}
		if err := output.Encode(read(asked)); err != nil {
			panic(err)
		}
	}
}
