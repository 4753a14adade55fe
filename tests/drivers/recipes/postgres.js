import postgres from 'postgres'

const [key, id] = process.argv.slice(2)
const amount = 10
const sql = postgres()
// RECIPE
await sql.end()
